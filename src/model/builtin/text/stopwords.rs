//! Words that carry grammar rather than content, English and Spanish together: texts mix both, and
//! a stop word of one language is hardly ever a content word of the other. Accents are folded.

use std::collections::HashSet;
use std::sync::OnceLock;

const ENGLISH: &str = "a about above after again against all also am an and any are aren't as at be because been before \
being below between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each \
either else ever every few for from further get gets getting go goes going got had has hasn't have haven't having he \
he's her here hers herself him himself his how however i i'd i'll i'm i've if in into is isn't it it's its itself just \
let let's like made make many may me might mine more most much must my myself neither no nor not now of off on once one \
only or other our ours ourselves out over own per please quite rather really same she she's should shouldn't since so \
some still such than that that's the their theirs them themselves then there there's these they they're this those \
though through thus to too under until up upon us very via was wasn't we we'd we'll we're we've were weren't what what's \
when where whether which while who whom whose why will with within without won't would wouldn't yes yet you you'd you'll \
you're you've your yours yourself ok okay hi hello thanks thank dear regards etc";

const SPANISH: &str = "a al algo alguien algun alguna algunas alguno algunos ante antes aquel aquella aquellas aquello \
aquellos aqui asi aun aunque bajo bien cada casi como con contra cual cuales cualquier cuando cuanto de del demas desde \
donde dos durante e el ella ellas ellos en entonces entre era eran eres es esa esas ese eso esos esta estaba estaban \
estamos estan estar estas este esto estos estoy etc fue fueron ha haber habia habian hace hacer hacia han has hasta hay \
he hemos hola igual incluso ir la las le les lo los luego mas me mediante mi mia mias mientras mio mis mismo misma mucho \
muchos muy nada ni ningun ninguna ninguno no nos nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros \
para pero poco por porque pues que quien quienes se sea sean segun ser si sido siempre sin sino sobre solo somos son soy \
su sus suya suyo tal tambien tampoco tan tanto te tener tengo ti tiene tienen toda todas todavia todo todos tras tu tus \
un una unas uno unos usted ustedes va vamos van varias varios vez voy vosotros vuestra vuestro y ya yo gracias saludos";

fn all() -> &'static HashSet<&'static str, super::words::Fast> {
    static ALL: OnceLock<HashSet<&'static str, super::words::Fast>> = OnceLock::new();
    ALL.get_or_init(|| ENGLISH.split_whitespace().chain(SPANISH.split_whitespace()).collect())
}

/// Whether a folded word carries no content in English or Spanish.
pub fn is_stop_word(folded: &str) -> bool {
    all().contains(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_are_known() {
        assert!(is_stop_word("the") && is_stop_word("tambien") && !is_stop_word("invoice"));
    }
}
